"""What every HTTP dialect stands on: typed routes, who may ask, and one engine behind many requests."""
