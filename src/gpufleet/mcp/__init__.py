"""`gpufleet mcp`: an assistant asks over standard input and output what others type, and gets short answers.

What a tool takes comes from the options of its verb; a question is answered in a process that can be ended.
"""
