#include "hostccl/net/hello.h"

#include <cstring>

#include "hostccl/net/siphash.h"

namespace hostccl::net {
namespace {

constexpr char kGreeting[4] = {'p', 'c', 'h', 'i'};

Opening make_opening(Verdict verdict) {
  Opening opening{};
  std::memcpy(opening.magic, kGreeting, sizeof(kGreeting));
  opening.version = kProtocolVersion;
  opening.verdict = static_cast<uint16_t>(verdict);
  return opening;
}

// What the client signs. The labels keep one side's MAC from being played back as the other's.
struct SignedByClient {
  char label[8] = {'c', 'l', 'i', 'e', 'n', 't'};
  Greeting greeting;
  std::byte hello[offsetof(Hello, mac)];
};

struct SignedByServer {
  char label[8] = {'s', 'e', 'r', 'v', 'e', 'r'};
  Greeting greeting;
  Hello hello;
  Opening answer;
};

template <typename T>
Bytes16 sign(const Bytes16& key, const T& what) {
  static_assert(std::has_unique_object_representations_v<T>, "padding would be signed too");
  return siphash(key, std::as_bytes(std::span(&what, 1)));
}

Bytes16 client_mac(const Hello& hello, const Bytes16& key, const Greeting& greeting) {
  SignedByClient what;
  what.greeting = greeting;
  std::memcpy(what.hello, &hello, sizeof(what.hello));
  return sign(key, what);
}

Bytes16 server_mac(const Bytes16& key, const Greeting& greeting, const Hello& hello, const Opening& answer) {
  SignedByServer what;
  what.greeting = greeting;
  what.hello = hello;
  what.answer = answer;
  return sign(key, what);
}

}  // namespace

const char* verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAccepted:
      return "accepted";
    case Verdict::kCrossed:
      return "it is connecting to us itself";
    case Verdict::kNotWanted:
      return "it has or had a connection with this rank already";
    case Verdict::kWrongRank:
      return "another rank lives at this address";
    case Verdict::kClosed:
      return "it has left the communicator";
  }
  return "unknown";
}

Greeting make_greeting(const Bytes16& nonce) { return {make_opening(Verdict::kAccepted), nonce}; }

Hello make_hello(const Introduction& who, const Greeting& greeting, const Bytes16& nonce) {
  Hello hello{make_opening(Verdict::kAccepted), who.topic, who.from, who.to, nonce, {}};
  hello.mac = client_mac(hello, who.key, greeting);
  return hello;
}

Answer make_answer(const Bytes16& key, const Greeting& greeting, const Hello& hello, Verdict verdict) {
  Answer answer{make_opening(verdict), {}};
  answer.mac = server_mac(key, greeting, hello, answer.opening);
  return answer;
}

std::string check_opening(const Opening& opening) {
  if (std::memcmp(opening.magic, kGreeting, sizeof(kGreeting)) != 0) return "it does not speak this protocol";
  if (opening.version != kProtocolVersion) {
    return "it speaks version " + std::to_string(opening.version) + " of the protocol, this process " +
           std::to_string(kProtocolVersion);
  }
  if (opening.verdict >= kVerdicts) return "its opening is malformed";
  return "";
}

bool is_authentic(const Hello& hello, const Bytes16& key, const Greeting& greeting) {
  return equal_in_constant_time(hello.mac, client_mac(hello, key, greeting));
}

std::string check_answer(const Answer& answer, const Bytes16& key, const Greeting& greeting, const Hello& hello) {
  if (std::string wrong = check_opening(answer.opening); !wrong.empty()) return wrong;
  if (!equal_in_constant_time(answer.mac, server_mac(key, greeting, hello, answer.opening))) {
    return "its answer does not prove that it knows the key";
  }
  return "";
}

}  // namespace hostccl::net
