#include "hostccl/windows/wait.h"

namespace hostccl {

pycomms::Status BellWait::check(int64_t now) {
  if (deadline_.passed(now)) return {pycomms::Code::kTimeout, "the deadline has passed"};
  if (asked_hook_ == 0) asked_hook_ = now;
  if (now - asked_hook_ > kAskHookEvery) {
    asked_hook_ = now;
    if (is_interrupted()) return {pycomms::Code::kInterrupted, "interrupted"};
  }
  return pycomms::Status::ok();
}

}  // namespace hostccl
