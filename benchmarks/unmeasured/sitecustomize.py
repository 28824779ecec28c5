"""Has every Python process that finds this on its path measure nothing of what `explain` says."""

import unmeasured_calls

unmeasured_calls.leave_out()
