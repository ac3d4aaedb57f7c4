#include "api/entry.h"

#include <utility>

#include "device.h"
#include "exit.h"
#include "log.h"
#include "settings.h"

namespace cuemu {
namespace {

thread_local Error last_error = cuda_abi::kSuccess;

}  // namespace

Error peek_last_error() { return last_error; }
Error take_last_error() { return std::exchange(last_error, cuda_abi::kSuccess); }

void Entry::enter(bool refuse_on_failed_device) {
  const std::optional<Error> injected = point_.pass();
  require(!is_forked_child(), cuda_abi::kInitializationError);
  if (injected) fail(*injected, "injected failure");
  if (refuse_on_failed_device) current_device().check();
}

Error Entry::refuse(Error error, const char* why) noexcept {
  if (error != cuda_abi::kSuccess) last_error = error;  // unless a test has left the call out
  if (settings().trace && error != cuda_abi::kNotReady) log("%s returns %d %s", name_, error, why);
  return error;
}

}  // namespace cuemu
