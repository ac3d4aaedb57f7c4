// What stands on its own: addresses, the choice of an interface, the identity of a host, the MAC, the settings.

#include <arpa/inet.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

#include "hostccl/net/config.h"
#include "hostccl/net/host_id.h"
#include "hostccl/net/siphash.h"
#include "net_world.h"

using namespace net_test;

namespace {

Address address(const char* text, uint32_t scope = 0) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    return Address::from(reinterpret_cast<sockaddr*>(&v4));
  }
  CHECK_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
  v6.sin6_family = AF_INET6;
  v6.sin6_scope_id = scope;
  return Address::from(reinterpret_cast<sockaddr*>(&v6));
}

const std::vector<Interface>& machine() {
  static const std::vector<Interface> all{
      {"lo", true, true, address("127.0.0.1")},     {"docker0", true, false, address("172.17.0.1")},
      {"ib0", false, false, address("10.1.0.9")},   {"eth0", true, false, address("fe80::1", 7)},
      {"eth0", true, false, address("10.0.0.5")},   {"eth0", true, false, address("fd00::5")},
      {"eth10", true, false, address("10.0.10.5")}, {"lo", true, true, address("::1")},
  };
  return all;
}

std::string choice(const char* names, int family = 0) {
  auto chosen = choose_interface(machine(), {names, family});
  return chosen.is_ok() ? chosen.value().to_text() : chosen.status().message();
}

std::string hex(const Bytes16& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    char two[3];
    std::snprintf(two, sizeof(two), "%02x", byte);
    text += two;
  }
  return text;
}

}  // namespace

TEST(an_address_survives_its_encoding) {
  for (const Address& each : {address("10.1.2.3").with_port(65535), address("fe80::1:2", 4).with_port(1),
                              address("fd00::5").with_port(4000), Address()}) {
    CHECK(must(Address::decode(each.encode())) == each);
  }
  CHECK_STREQ(address("10.1.2.3").with_port(80).to_text(), "10.1.2.3:80");
  CHECK_STREQ(address("fd00::5").with_port(80).to_text(), "[fd00::5]:80");
  CHECK_STREQ(address("fe80::1", 999999).with_port(80).to_text(), "[fe80::1%999999]:80");
  CHECK_STREQ(Address().to_text(), "no address");
}

TEST(malformed_addresses_are_refused) {
  Address::Encoded good = address("10.1.2.3").encode();
  for (const size_t at : {size_t{0}, size_t{1}, size_t{23}}) {
    Address::Encoded bad = good;
    bad[at] = 9;
    CHECK(Address::decode(bad).status().code() == pycomms::Code::kInvalidArgument);
  }
}

TEST(a_link_local_address_is_dialled_over_the_diallers_own_interface) {
  const auto scope_of = [](const SocketAddress& to) {
    return reinterpret_cast<const sockaddr_in6&>(to.storage).sin6_scope_id;
  };
  CHECK_EQ(scope_of(address("fe80::1", 7).to_socket_address(3)), 3u);
  CHECK_EQ(scope_of(address("fe80::1", 7).to_socket_address(0)), 7u);
  CHECK_EQ(scope_of(address("fd00::1").to_socket_address(3)), 0u);
}

TEST(an_interface_is_chosen) {
  CHECK_STREQ(choice(""), "10.0.0.5:0");
  CHECK_STREQ(choice("", 6), "[fd00::5]:0");
  CHECK_STREQ(choice("lo"), "127.0.0.1:0");
  CHECK_STREQ(choice("lo", 6), "[::1]:0");
  CHECK_STREQ(choice("eth10,eth0"), "10.0.10.5:0");
  CHECK_STREQ(choice("eth"), "10.0.0.5:0");
  CHECK_STREQ(choice("=eth10"), "10.0.10.5:0");
  CHECK_STREQ(choice("^eth0,lo"), "172.17.0.1:0");
  CHECK_STREQ(choice("^=eth0,docker0"), "10.0.10.5:0");
  CHECK_STREQ(choice("docker"), "172.17.0.1:0");
  CHECK(choice("=eth").find("interface '=eth' was asked for and none fits; there are: lo 127.0.0.1:0") == 0);
  CHECK(choice("ib0").find("ib0 10.1.0.9:0 (down)") != std::string::npos);
  CHECK(choice("", 5).find("family is 5") != std::string::npos);
  const std::vector<Interface> alone{machine()[0]};
  CHECK_STREQ(must(choose_interface(alone, {})).to_text(), "127.0.0.1:0");
  CHECK(!must(list_interfaces()).empty());
}

TEST(a_host_is_itself_and_may_pretend) {
  CHECK(must(host_id("")) == must(host_id("")));
  CHECK(must(host_id("")) != must(host_id("a")));
  CHECK(must(host_id("a")) == must(host_id("a")));
  CHECK(must(host_id("a")) != must(host_id("b")));
}

TEST(settings_come_from_the_environment) {
  must(Config::from_environment(getenv));
  const auto with = [](const char* name) -> const char* {
    return std::string(name) == "PYCOMMS_SOCKET_FAMILY" ? "6" : std::string(name) == "PYCOMMS_HOST_ID" ? "x" : nullptr;
  };
  const Config config = must(Config::from_environment(with));
  CHECK_EQ(config.interfaces.family, 6);
  CHECK_EQ(config.host_id, std::string("x"));
  CHECK_EQ(config.interfaces.names, std::string());
  CHECK_EQ(config.host_timeout_ns, 2 * pycomms::kSecond);
  for (const char* seconds : {"0.5", "0.05", "2s", "nan", "1e9"}) {
    auto timed = Config::from_environment([seconds](const char* name) -> const char* {
      return std::string(name) == "PYCOMMS_HOST_TIMEOUT" ? seconds : nullptr;
    });
    CHECK_EQ(timed.is_ok(), std::string(seconds) == "0.5");
    if (timed.is_ok()) CHECK_EQ(timed.value().host_timeout_ns, pycomms::kSecond / 2);
  }
  auto wrong = Config::from_environment([](const char*) -> const char* { return "7"; });
  CHECK_STREQ(wrong.status().message(), "PYCOMMS_SOCKET_FAMILY is '7', expected 4, 6 or nothing");
}

// Key 00..0f, message 00..(n-1): the vectors that its authors publish.
TEST(siphash_gives_the_published_values) {
  Bytes16 key = bytes16(0);
  std::vector<std::byte> message;
  const std::map<size_t, const char*> expected{
      {0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
      {2, "8177228da4a45dc7fca38bdef60affe4"},  {7, "a1f1ebbed8dbc153c0b84aa61ff08239"},
      {8, "3b62a9ba6258f5610f83e264f31497b4"},  {9, "264499060ad9baabc47f8b02bb6d71ed"},
      {15, "5493e99933b0a8117e08ec0f97cfc3d9"}, {16, "6ee2a4ca67b054bbfd3315bf85230577"},
      {31, "2939b0183223fafc1723de4f52c43d35"}, {63, "5150d1772f50834a503e069a973fbd7c"},
  };
  for (size_t n = 0; n < 64; ++n) {
    if (expected.contains(n)) CHECK_STREQ(hex(siphash(key, message)), expected.at(n));
    message.push_back(static_cast<std::byte>(n));
  }
  CHECK(derive(key, "a") != derive(key, "b"));
}

TEST(a_forked_child_has_no_copy) {
  SocketPair pair;
  Descriptor moved = std::move(pair.a);
  const pid_t child = fork();
  if (child == 0) _exit(moved.get() < 0 && pair.b.get() < 0 && !pair.a ? 0 : 1);
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK(moved.get() >= 0);
}

CHECK_MAIN()
