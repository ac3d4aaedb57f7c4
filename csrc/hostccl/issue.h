// From a checked call to its execution: on the calling thread, on a stream of ours or somebody else's, or kept until the
// group ends.
// Threads: any; a group belongs to the thread that opened it. Must not know: NCCL's function names.
#pragma once

#include "hostccl/communicator.h"
#include "hostccl/op.h"

namespace hostccl {

// stream == nullptr, and streams are ours: returns when the operation has ended.
Result issue(Communicator& comm, const Collective& op, StreamHandle stream);
// Point to point by NCCL's functions: takes its turn on the stream, or blocks.
Result issue(Communicator& comm, const P2pRequest& request, StreamHandle stream);

// Groups nest. All point-to-point requests of a group progress together, also with its collectives.
Result group_start();
Result group_end();

}  // namespace hostccl
