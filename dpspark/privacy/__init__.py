"""The cost of a release, and what protects it: budgets, sensitivities, noise, composition. Never imports pyspark."""
