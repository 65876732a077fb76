"""How requests and answers are written."""
