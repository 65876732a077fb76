"""What operators change from the pages: one table of actions, each with its form and the verb that it calls."""
