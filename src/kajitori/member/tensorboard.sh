# Start TensorBoard for the folder $1 at the port $2, and end it with standard input: a program of exec may outlive its connection.
exec 3<&0
if command -v tensorboard >/dev/null 2>&1; then tensorboard --logdir "$1" --host 127.0.0.1 --port "$2" &
elif python3 -c 'import tensorboard' 2>/dev/null; then
  python3 -m tensorboard.main --logdir "$1" --host 127.0.0.1 --port "$2" &
else exit 127
fi
board=$!
(cat <&3 >/dev/null; kill "$board" 2>/dev/null) &
wait "$board"
