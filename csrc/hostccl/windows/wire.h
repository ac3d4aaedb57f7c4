// What one process asks of the windows of another one, and what that answers: fixed headers as bytes, and what is wrong with
// them. A request is its header, its pieces, its payload; an answer its header and its payload. Requests are numbered in the order
// in which they are sent and done in that order, but for locks, which wait beside it.
//
// Any thread; plain data, pure functions. Must not know: connections, memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "hostccl/hostccl_windows.h"
#include "hostccl/net/bytes.h"

namespace hostccl {

enum class WindowRequestKind : uint8_t {
  kPut = 1,      // payload: what goes there
  kGet,          // answered with the pieces
  kUpdate,       // payload: the operands, none for kFetch; answered with what was there if kAnswered
  kCompareSwap,  // one piece of one element; payload: expected, desired; answered with what was there
  kSignal,
  kFlush,
  kLock,    // value: how long it may wait, in ns
  kUnlock,  //
  kForgo,   // value: the number of a lock that is not waited for any more. If it has been got, it is let go
  kTell,    // value: the WindowState of the asking rank's own part of the window
};

// WindowRequest::flags
inline constexpr uint8_t kAnswered = 1;  // otherwise only an error is
inline constexpr uint8_t kSignals = 2;   // a put: then the signal
inline constexpr uint8_t kShared = 4;    // a lock

// Ranks may be threads of one process, which has one endpoint: the service of each has a topic of its own.
net::Bytes16 window_topic(const net::Bytes16& of_communicator, int rank);

inline constexpr size_t kPiecesOfRequest = 256;
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 48;  // of a request, and where a window ends at the latest
inline constexpr size_t kWindowWords = 256;                  // of the words that say why not

struct WindowRequest {
  uint32_t magic;
  uint8_t version;
  uint8_t kind;
  uint8_t flags;
  uint8_t op;       // WindowOp
  uint64_t number;  // 1 and on
  uint32_t window;
  uint32_t pieces;
  uint64_t bytes;   // of the payload
  int64_t value;    // of the signal, and see above
  int32_t slot;     // of the signal
  uint32_t change;  // of the signal
  int32_t type;     // DataType
  uint32_t unused;
};

enum class WindowVerdict : uint8_t {
  kDone = 1,  // payload: the last of what was asked for
  kPart,      // payload: some of it; more answers to the same request follow
  kClosed,    // there is no such window any more
  kRefused,   // payload: why, in words
  kTimeout,   // a lock; rank: who has it
};

struct WindowAnswer {
  uint32_t magic;
  uint8_t version;
  uint8_t verdict;
  uint8_t asked;  // 0: nobody waits for it
  uint8_t unused;
  uint64_t number;  // of the request
  uint64_t bytes;   // of the payload
  int32_t rank;     // -1: none. Of a lock that was got: who had died with it
  uint32_t window;
};

static_assert(sizeof(WindowRequest) == 56 && std::has_unique_object_representations_v<WindowRequest> &&
                  sizeof(WindowAnswer) == 32 && std::has_unique_object_representations_v<WindowAnswer> &&
                  sizeof(WindowPiece) == 16 && std::has_unique_object_representations_v<WindowPiece>,
              "the wire format");

WindowRequest make_request(WindowRequestKind kind, uint32_t window);
WindowAnswer make_answer(const WindowRequest& request, WindowVerdict verdict, uint64_t bytes, int rank = -1);

// What is wrong, in words; empty when nothing is. before: the number of the last one.
std::string check_request(const WindowRequest& request, uint64_t before);
// The pieces of a request that is right; the bytes of all of them together come out.
std::string check_request_pieces(const WindowRequest& request, std::span<const WindowPiece> pieces, uint64_t& total);
// last: the number of the last request that was sent.
std::string check_answer(const WindowAnswer& answer, uint64_t last);

const char* name_of(WindowRequestKind kind);

}  // namespace hostccl
