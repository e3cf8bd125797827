"""The seeds' configs, API, rules and texts, as they show them; what is true today stands beside each answer."""
