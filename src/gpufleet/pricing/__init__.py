"""USD: what machines, tokens and requests cost."""
