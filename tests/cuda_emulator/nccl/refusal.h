// How a call says no: a text for ncclGetLastError of the calling thread, and a result.
#pragma once

#include <string>

#include "inner.h"

namespace nccl_emulator {

std::string& last_error();  // of the calling thread
Result refuse(Result result, const std::string& text);
// The result of one of hostccl's functions, whose text is kept.
Result told(Result result);
// A function that is not emulated: says so on stderr too.
Result unsupported(const char* function);

}  // namespace nccl_emulator
