// The three messages that open a connection, as bytes: the server greets with a nonce; the client names the topic, both
// ranks and a nonce of its own, with a MAC over all that was said; the server answers with a verdict and a MAC. Each side
// has then seen that the other one knows the topic's key, for this connection, and the key itself was never sent.
// What follows is neither encrypted nor authenticated: the network is trusted not to alter what it carries.
//
// Any thread; pure. Must not know: sockets, deadlines, who is registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "hostccl/net/bytes.h"

namespace hostccl::net {

inline constexpr uint16_t kProtocolVersion = 1;
inline constexpr int32_t kAnyRank = -1;

struct Opening {
  char magic[4];
  uint16_t version;
  uint16_t verdict;  // of an Answer; 0 otherwise
};

struct Greeting {
  Opening opening;
  Bytes16 nonce;
};

struct Hello {
  Opening opening;
  Bytes16 topic;
  int32_t from;  // the client's rank
  int32_t to;    // the rank that it wants; kAnyRank: whoever serves the topic
  Bytes16 nonce;
  Bytes16 mac;
};

enum class Verdict : uint16_t {
  kAccepted,
  kCrossed,    // the server is dialling the client, and that connection is the one to keep
  kNotWanted,  // there is a connection already, or there was one
  kWrongRank,  // another rank serves the topic here, or the client's is none
  kClosed,     // the topic was served here, and is no longer
};
inline constexpr uint16_t kVerdicts = 5;
const char* verdict_text(Verdict verdict);

struct Answer {
  Opening opening;
  Bytes16 mac;
};

static_assert(sizeof(Greeting) == 24 && sizeof(Hello) == 64 && sizeof(Answer) == 24, "the wire format");
static_assert(std::is_trivially_copyable_v<Greeting> && std::is_trivially_copyable_v<Hello> &&
              std::is_trivially_copyable_v<Answer>);

// Who a client is, and what proves it.
struct Introduction {
  Bytes16 topic;
  Bytes16 key;
  int32_t from;
  int32_t to;
};

Greeting make_greeting(const Bytes16& nonce);
Hello make_hello(const Introduction& who, const Greeting& greeting, const Bytes16& nonce);
Answer make_answer(const Bytes16& key, const Greeting& greeting, const Hello& hello, Verdict verdict);

// Empty when all is well; otherwise what is wrong, in words.
std::string check_opening(const Opening& opening);
bool is_authentic(const Hello& hello, const Bytes16& key, const Greeting& greeting);
std::string check_answer(const Answer& answer, const Bytes16& key, const Greeting& greeting, const Hello& hello);

// One of them while it comes in.
template <typename Wire>
struct Partial {
  Wire value{};
  size_t have = 0;
  bool is_complete() const { return have == sizeof(Wire); }
  std::span<std::byte> missing() { return std::as_writable_bytes(std::span(&value, 1)).subspan(have); }
};

}  // namespace hostccl::net
