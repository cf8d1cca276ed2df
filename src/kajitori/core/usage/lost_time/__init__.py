"""Lost time: how much of a run's time was productive, what the rest was spent on, and why. Begin with `slices.divide`.

slices       the time of members that held nodes together, divided by what they did
run_time     sums of slices for a whole run, by category and by cause
checkpoints  how often a run wrote one, and the interval that would have cost least
sentences    all of this as sentences for reports
"""
