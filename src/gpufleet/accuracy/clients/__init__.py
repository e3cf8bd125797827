"""Result files of benchmark clients, each run as a row of an engine under load."""
