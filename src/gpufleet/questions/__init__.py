"""What may be asked, each word of a question once: command line, files, preferences and recorded inputs follow."""
