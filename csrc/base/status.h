// Status: the result of a call that can fail. Ok costs one null pointer; an error carries a code and one sentence.
// Any thread; immutable after construction. Must not know: what a rank or a communicator is.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace pycomms {

enum class Code : uint8_t {
  kOk,
  kInvalidArgument,  // the caller's mistake: nothing was changed
  kInvalidState,     // not now: closed, failed before, still starting
  kTimeout,
  kCancelled,
  kInterrupted,  // Ctrl-C
  kPeerFailure,
  kMismatch,
  kSystem,  // the operating system refused something
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : detail_(std::make_shared<const Detail>(Detail{code, std::move(message)})) {}

  static Status ok() { return {}; }
  // "what: No such file or directory"
  static Status system(const std::string& what, int error = errno) {
    return {Code::kSystem, what + ": " + std::strerror(error)};
  }

  bool is_ok() const { return detail_ == nullptr; }
  Code code() const { return detail_ ? detail_->code : Code::kOk; }
  const std::string& message() const {
    static const std::string kNone;
    return detail_ ? detail_->message : kNone;
  }

 private:
  struct Detail {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Detail> detail_;  // shared: one error reaches many waiters
};

// A value or the Status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::make_unique<T>(std::move(value))) {}
  Result(Status status) : status_(std::move(status)) {}

  bool is_ok() const { return value_ != nullptr; }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T&& take() { return std::move(*value_); }

 private:
  std::unique_ptr<T> value_;
  Status status_;
};

#define PYCOMMS_RETURN_IF_ERROR(expression)                                         \
  do {                                                                              \
    if (::pycomms::Status status_ = (expression); !status_.is_ok()) return status_; \
  } while (false)

}  // namespace pycomms
