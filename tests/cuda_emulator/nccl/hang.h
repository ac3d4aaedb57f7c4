// Work that does not end, as a test has ordered: until its communicator is released, or a generous time has passed.
// Threads: any.
#pragma once

#include <memory>

#include "handle.h"

namespace nccl_emulator {

// On the stream.
Result hang(StreamHandle stream, std::shared_ptr<Release> release);
// On the calling thread: a blocking call that stays in progress.
Result block_for_ever(const std::shared_ptr<Release>& release);

}  // namespace nccl_emulator
