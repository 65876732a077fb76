"""What is offered, by theme."""
