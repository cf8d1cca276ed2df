"""Everything that decides: functions of state and time, without a clock, a network or an event loop."""
