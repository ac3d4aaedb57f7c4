// Operations on external streams: from a batch to the work that the streams' owner runs.
// Threads: issue from any; the work runs on a thread of the owner, who keeps the order of each stream.
#pragma once

#include <vector>

#include "hostccl/batch.h"

namespace hostccl {

// If there are other streams, the batch runs when all of them have come to it, and all go on when it has ended.
// The caller holds the communicators. kUnhandledCudaError: a stream did not take it.
Result issue_externally(Batch batch, StreamHandle stream, const std::vector<StreamHandle>& others);

}  // namespace hostccl
