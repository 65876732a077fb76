"""The page on which a visitor plays plans: two sets of numbers for a gate, or two plans in words, side by side."""
