"""One question a file: joins what it costs in memory, time and money, ranks, and says why."""
