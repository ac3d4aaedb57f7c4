// Streams that belong to somebody else: once they are set, no stream handle is ours, and what is issued on one is handed to
// its owner, who runs it in the order of the stream. Set once, before the first communicator; any thread reads.
// Must not know: CUDA.
#pragma once

#include <atomic>

#include "hostccl/hostccl.h"

namespace hostccl {

void set_external_streams(const ExternalStreams& streams);

inline constinit std::atomic<const ExternalStreams*> external_streams_in_use{nullptr};

// Null: streams are ours.
inline const ExternalStreams* external_streams() { return external_streams_in_use.load(std::memory_order_acquire); }

}  // namespace hostccl
