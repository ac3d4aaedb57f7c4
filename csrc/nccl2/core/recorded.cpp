#include "nccl2/core/recorded.h"

namespace pycomms {

Outcome outcome_of(const Error& error) {
  if (!error) return Outcome::kDone;
  switch (error.detail().kind) {
    case ErrorKind::kTimeout:
      return Outcome::kTimedOut;
    case ErrorKind::kRevoked:
    case ErrorKind::kClosed:
    case ErrorKind::kInterrupted:
      return Outcome::kCancelled;
    case ErrorKind::kUsage:
    case ErrorKind::kMismatch:
    case ErrorKind::kPeerFailure:
    case ErrorKind::kNotFinite:
    case ErrorKind::kSystem:
      return Outcome::kFailed;
  }
  return Outcome::kFailed;
}

recorder::State recorded_state(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPending:
    case Outcome::kEnding:
      return recorder::State::kIssued;
    case Outcome::kDone:
      return recorder::State::kCompleted;
    case Outcome::kFailed:
      return recorder::State::kFailed;
    case Outcome::kTimedOut:
      return recorder::State::kTimedOut;
    case Outcome::kCancelled:
      return recorder::State::kCancelled;
  }
  return recorder::State::kUnknown;
}

}  // namespace pycomms
