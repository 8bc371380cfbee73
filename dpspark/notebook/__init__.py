"""What a notebook shows: releases, regressions and plans as HTML, and the progress of a release."""
