#!/bin/sh
# One job on several hosts: run this on every one of them, with the same variables and arguments.
#
#     HOSTS=4 PER_HOST=8 MASTER=node0 launch/torchrun.sh train.py --epochs 3
#
# MASTER is a host of the job that all others reach by this name or address; port PORT (29400) of it must be free. There
# the hosts meet, and torchrun chooses ports for everything else. Without HOSTS: one host, which meets nobody.
set -eu
: "${PER_HOST:=1}"
if [ "${HOSTS:-1}" = 1 ]; then
  exec torchrun --standalone --nproc-per-node "$PER_HOST" "$@"
fi
exec torchrun --nnodes "$HOSTS" --nproc-per-node "$PER_HOST" --rdzv-backend c10d --rdzv-id "${JOB:-job}" \
  --rdzv-endpoint "${MASTER:?the name of one of the hosts}:${PORT:-29400}" "$@"
