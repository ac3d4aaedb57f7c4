// Names and sentences of CUDA's errors. Any thread; the strings live for ever.
#pragma once

#include "abi.h"

namespace cuemu {

const char* error_name(cuda_abi::Error error);
// The sentence, followed by the reason of the failed device where there is one: torch shows nothing else to the user.
const char* error_text(cuda_abi::Error error);

}  // namespace cuemu
