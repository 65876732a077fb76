"""The read side: jobs, gates, queues and workflows as people and programs see them.  Changes nothing."""
