"""A plan carried out on disk: stages, workspace, results, report."""
