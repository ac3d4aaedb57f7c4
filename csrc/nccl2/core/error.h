// What went wrong with an operation or a communicator: the class of damage, one message, and the facts as fields.
// An Error is a null pointer when all is well. Immutable, shared: the first error of a communicator reaches many waiters.
// Any thread. Must not know: torch, exceptions (c10d/errors.h turns an Error into one).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pycomms {

enum class ErrorKind : uint8_t {
  kUsage,        // the arguments are wrong: nothing was issued, nobody was harmed
  kMismatch,     // ranks disagree about what the operation is
  kPeerFailure,  // a member of the group is gone
  kTimeout,      // a deadline passed
  kRevoked,      // a member gave the communicator up for all
  kClosed,       // closed or aborted by this process
  kInterrupted,  // Ctrl-C
  kNotFinite,    // NaN or infinity in the data of one operation; the group goes on
  kSystem,       // the engine or the operating system refused something
};

struct ErrorDetail {
  ErrorKind kind = ErrorKind::kSystem;
  std::string message;
  std::vector<int> ranks;  // of the group: dead, missing or disagreeing members
  std::string op;
  uint64_t sequence = 0;
  std::string group;
  int rank = -1;  // of this process in the group
};

class [[nodiscard]] Error {
 public:
  Error() = default;
  explicit Error(ErrorDetail detail) : detail_(std::make_shared<const ErrorDetail>(std::move(detail))) {}

  bool is_ok() const { return detail_ == nullptr; }
  explicit operator bool() const { return detail_ != nullptr; }  // true when there is an error
  const ErrorDetail& detail() const { return *detail_; }

 private:
  std::shared_ptr<const ErrorDetail> detail_;
};

}  // namespace pycomms
