"""What was found and decided: findings, evidence, verdict, their files and texts."""
