"""How answers are told: text, JSON, CSV, pictures."""
