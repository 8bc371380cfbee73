"""What makes a row of the source one record: read from the plan that Spark runs, never from the text that it was made of."""
