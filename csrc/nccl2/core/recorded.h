// How operations end, in the words of the flight recorder. Pure functions, any thread.
#pragma once

#include "nccl2/core/error.h"
#include "nccl2/core/op_state.h"
#include "recorder/format.h"

namespace pycomms {

Outcome outcome_of(const Error& error);
recorder::State recorded_state(Outcome outcome);
inline recorder::State recorded_state(const Error& error) { return recorded_state(outcome_of(error)); }

}  // namespace pycomms
