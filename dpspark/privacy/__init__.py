"""What a release costs and what protects it: budgets, sensitivities, noise, the ledger. Never imports pyspark."""
