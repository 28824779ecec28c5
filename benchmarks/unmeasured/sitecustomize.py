"""Has every Python process that finds this on its path measure nothing when it is told so."""

import unmeasured_calls

unmeasured_calls.listen()
