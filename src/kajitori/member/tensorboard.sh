# Start TensorBoard for the folder $1 at the port $2 (empty: the first free one from 6006), and end it with standard input: a program of exec may outlive its connection.
# TensorBoard prints its address once it listens; callers read the port from it. Members of kaji up share the ports of their machine.
exec 3<&0
if command -v tensorboard >/dev/null 2>&1; then tensorboard --logdir "$1" --host 127.0.0.1 ${2:+--port "$2"} &
elif python3 -c 'import tensorboard' 2>/dev/null; then
  python3 -m tensorboard.main --logdir "$1" --host 127.0.0.1 ${2:+--port "$2"} &
else exit 127
fi
board=$!
(cat <&3 >/dev/null; kill "$board" 2>/dev/null) &
wait "$board"
