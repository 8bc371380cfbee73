"""How things are shown: text tables, HTML, pictures, progress on a terminal, in a notebook and for programs."""
