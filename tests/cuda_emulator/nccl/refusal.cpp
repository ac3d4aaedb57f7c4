#include "refusal.h"

#include <cstdio>

namespace nccl_emulator {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

Result refuse(Result result, const std::string& text) {
  last_error() = text;
  return result;
}

Result told(Result result) {
  if (result != nccl_abi::kSuccess && result != nccl_abi::kInProgress) last_error() = inner_ncclGetLastError(nullptr);
  return result;
}

Result unsupported(const char* function) {
  const std::string text = std::string("nccl emulator: ") + function + " is not emulated";
  std::fprintf(stderr, "%s\n", text.c_str());
  return refuse(nccl_abi::kInvalidUsage, text);
}

}  // namespace nccl_emulator
