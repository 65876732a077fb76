"""The verbs of `Engine` by theme: each is one transaction.  Their insides are in the folder above."""
