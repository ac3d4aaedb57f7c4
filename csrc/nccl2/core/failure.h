// What an engine's result code means: hostccl tells in full, NCCL gives a code and a line of text.
// Any thread; pure but for the questions it asks the engine. Must not know: the lifecycle.
#pragma once

#include <string>
#include <vector>

#include "nccl2/core/error.h"
#include "nccl2/driver/nccl_api.h"

namespace pycomms {

struct Explanation {
  ErrorKind kind = ErrorKind::kSystem;
  std::string text;
  std::string op;  // empty when the engine does not tell
  uint64_t sequence = 0;
  std::vector<int> ranks;
};

// Of a call of a window, which concerns nobody but its caller: what this thread's last call met.
Explanation explain_call(const Engine& engine, EngineResult result);
Explanation explain_engine(const Engine& engine, CommHandle comm, EngineResult result);

// The other way round, for Communicator::give_up: the failure that tells the members about `error`.
hostccl::Failure to_failure(const ErrorDetail& error);

// The engine's own words about the last failure; `comm` may be null.
std::string last_engine_text(const Engine& engine, CommHandle comm);

}  // namespace pycomms
