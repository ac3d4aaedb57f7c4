// Streams that belong to somebody else: once they are set, no stream handle is ours, and what is issued on one is handed to
// its owner, who runs it in the order of the stream. Set once, before the first communicator; any thread reads.
// Must not know: CUDA.
#pragma once

#include "hostccl/hostccl.h"

namespace hostccl {

void set_external_streams(const ExternalStreams& streams);
// Null: streams are ours.
const ExternalStreams* external_streams();

}  // namespace hostccl
