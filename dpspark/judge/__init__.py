"""The judge: is a row of the source one record? It reads the plan that Spark runs, never the text that it was made of."""
