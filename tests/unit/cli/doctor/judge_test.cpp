// What a doctor makes of facts: figures that are typed here, and links over loopback that are really tried.
#include "muster/cli/doctor/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "muster/base/error.h"
#include "muster/base/version.h"
#include "muster/cli/doctor/meeting.h"
#include "muster/cli/doctor/probe.h"
#include "support/errors.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A machine with which nothing is wrong.
MachineFacts healthy(const std::string& host = "a") {
  MachineFacts facts;
  facts.host = host;
  facts.muster = "1";
  facts.kernels = {"2.6", "Haswell", "AVX2"};
  facts.cores = facts.machine_cores = 4;
  facts.open_files = 4096;
  facts.processes = 10'000;
  facts.memory = 8ULL << 30;
  facts.shared_memory = 1ULL << 30;
  facts.own_addresses = {"10.0.0.1"};
  return facts;
}

std::optional<Diagnosis> worst_of(const std::vector<Diagnosis>& findings, const std::string& what) {
  std::optional<Diagnosis> worst;
  for (const Diagnosis& finding : findings)
    if (finding.what == what && (!worst || finding.health > worst->health)) worst = finding;
  return worst;
}

TEST(Doctor, AHealthyMachineHasNothingToDo) {
  const std::vector<Diagnosis> findings = judge_machine(healthy());
  for (const Diagnosis& finding : findings) {
    EXPECT_EQ(finding.health, Health::kOk) << finding.what << ": " << finding.words;
    EXPECT_EQ(finding.remedy, "");
    EXPECT_EQ(finding.host, "a");
  }
  EXPECT_EQ(exit_code_for(findings), 0);
}

struct Ill {
  const char* what;
  Health health;
  void (*spoil)(MachineFacts&);
};
class DoctorFinds : public ::testing::TestWithParam<Ill> {};

TEST_P(DoctorFinds, WhatIsWrongAndSaysWhatToDo) {
  MachineFacts facts = healthy();
  GetParam().spoil(facts);
  const std::vector<Diagnosis> findings = judge_machine(facts);
  const auto found = worst_of(findings, GetParam().what);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->health, GetParam().health) << found->words;
  EXPECT_NE(found->remedy, "");
  EXPECT_EQ(exit_code_for(findings), GetParam().health == Health::kWrong ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, DoctorFinds,
    ::testing::Values(Ill{"cores", Health::kWarning, [](MachineFacts& f) { f.cores = 2; }},
                      Ill{"load", Health::kWarning, [](MachineFacts& f) { f.load = 4.1; }},
                      Ill{"open files", Health::kWarning, [](MachineFacts& f) { f.open_files = 1023; }},
                      Ill{"processes", Health::kWarning, [](MachineFacts& f) { f.processes = 100; }},
                      Ill{"memory", Health::kWarning, [](MachineFacts& f) { f.memory = (1ULL << 30) - 1; }},
                      Ill{"/dev/shm", Health::kWarning, [](MachineFacts& f) { f.shared_memory = 0; }},
                      Ill{"own name", Health::kWarning, [](MachineFacts& f) { f.own_addresses.clear(); }},
                      Ill{"own name", Health::kWarning,
                          [](MachineFacts& f) {
                            f.own_addresses = {"127.0.1.1", "::1"};
                          }},
                      Ill{"certificate", Health::kWrong,
                          [](MachineFacts& f) {
                            f.certificate = "agent b";
                            f.certificate_wrong = "it has expired";
                          }},
                      Ill{"certificate", Health::kWarning,
                          [](MachineFacts& f) {
                            f.certificate = "agent b";
                            f.certificate_days = 13.9;
                          }},
                      Ill{"job", Health::kWrong,
                          [](MachineFacts& f) {
                            f.job = "x";
                            f.job_wrong = "there is no such file";
                            f.job_remedy = "Bring it.";
                          }},
                      Ill{"workers", Health::kWarning, [](MachineFacts& f) {
                            f.job = "x";
                            f.job_workers = 5;
                          }}));

TEST(Doctor, FactsTravel) {
  MachineFacts facts = healthy();
  facts.data = {{"data.path (/x)", "3 files, abc"}};
  facts.job_doubts = {"hm"};
  facts.certificate_days = 3.5;
  facts.probe = "10.0.0.1:5";
  EXPECT_EQ(to_json(facts_from(to_json(facts), "here")), to_json(facts));
  Json cut = to_json(facts);
  cut.erase("cores");
  testing::expect_error(ErrorKind::kDamaged, "cores", [&] { facts_from(cut, "here"); });
}

TEST(Doctor, HostsHaveToHaveTheSame) {
  MachineFacts a = healthy("a");
  MachineFacts b = healthy("b");
  MachineFacts c = healthy("c");
  a.data = b.data = c.data = {{"training set", "100 samples"}};
  EXPECT_EQ(exit_code_for(judge_together({a, b, c})), 0);
  b.data["training set"] = "99 samples";
  const auto data = worst_of(judge_together({a, b, c}), "training set");
  EXPECT_EQ(data->health, Health::kWrong);
  EXPECT_THAT(data->words, AllOf(HasSubstr("100 samples on a and c"), HasSubstr("99 samples on b")));
  b.data.clear();
  EXPECT_THAT(worst_of(judge_together({a, b, c}), "training set")->words, HasSubstr("not there on b"));
  c.muster = "2";
  EXPECT_EQ(worst_of(judge_together({a, b, c}), "Muster")->health, Health::kWrong);
  c.kernels.torch = "1.13";
  EXPECT_EQ(worst_of(judge_together({a, b, c}), "LibTorch")->health, Health::kWarning);
  EXPECT_EQ(worst_of(judge_together({a, b, c}), "BLAS kernels")->health, Health::kOk);
  b.kernels.blas = "SkylakeX";
  b.kernels.aten = "AVX512";
  const auto blas = worst_of(judge_together({a, b, c}), "BLAS kernels");
  EXPECT_EQ(blas->health, Health::kWarning);
  EXPECT_THAT(blas->words, AllOf(HasSubstr("Haswell on a and c"), HasSubstr("SkylakeX on b")));
  EXPECT_THAT(blas->remedy, HasSubstr("OPENBLAS_CORETYPE=Haswell"));
  EXPECT_THAT(worst_of(judge_together({a, b, c}), "ATen kernels")->remedy, HasSubstr("ATEN_CPU_CAPABILITY=avx2"));
  EXPECT_EQ(worst_of(judge_together({a, a}), "names")->health, Health::kWarning);
}

TEST(Doctor, LinksAreHeldAgainstEachOther) {
  const std::vector<MachineFacts> hosts{healthy("a"), healthy("b"), healthy("c")};
  std::vector<LinkFigures> links;
  for (std::size_t from = 0; from < 3; ++from)
    for (std::size_t to = 0; to < 3; ++to)
      if (from != to) links.push_back({from, to, "", 100, 1000, 0.5});
  EXPECT_EQ(judge_links(hosts, links).size(), 2U) << "links and clocks, both fine";
  EXPECT_EQ(exit_code_for(judge_links(hosts, links)), 0);
  links[1].megabits = 499;
  EXPECT_THAT(worst_of(judge_links(hosts, links), "link")->words, HasSubstr("from a to c: 499 Mbit/s"));
  links[1].failure = "Connection refused";
  const auto cut = worst_of(judge_links(hosts, links), "link");
  EXPECT_EQ(cut->health, Health::kWrong);
  EXPECT_THAT(cut->words, HasSubstr("a does not reach c"));
  links[2].clock_ahead_ms = -2000;
  const auto clock = worst_of(judge_links(hosts, links), "clocks");
  EXPECT_EQ(clock->health, Health::kWarning);
  EXPECT_THAT(clock->words, HasSubstr("that of a is 2.0 s behind that of b"));
  links[2].clock_ahead_ms = 3'600'000;
  EXPECT_EQ(worst_of(judge_links(hosts, links), "clocks")->health, Health::kWrong);
  const std::string table = matrix_of(hosts, links);
  EXPECT_THAT(table, AllOf(HasSubstr("Mbit/s"), HasSubstr("none"), HasSubstr("1000")));
}

TEST(Probe, TriesALinkAndAnswersNobodyElse) {
  const ProbeServer server("127.0.0.1", 0, std::string(32, 'w'));
  const LinkFigures link = probe_link(server.address(), std::string(32, 'w'));
  EXPECT_EQ(link.failure, "");
  EXPECT_GT(link.megabits, 0);
  EXPECT_GT(link.latency_us, 0);
  EXPECT_LT(std::abs(link.clock_ahead_ms), 10'000);
  EXPECT_NE(probe_link(server.address(), std::string(32, 'x')).failure, "");
  EXPECT_NE(probe_link("127.0.0.1:1", std::string(32, 'w')).failure, "");
  EXPECT_EQ(address_towards("127.0.0.1:80"), "127.0.0.1");
}

TEST(Doctor, ThreeHostsMeet) {
  DoctorDesk desk(3, "text of the job");
  const auto card = [](const std::string& name) {
    control::HostCard card;
    card.version = version();
    card.name = name;
    return card;
  };
  desk.join(card("a"));
  std::vector<std::string> told(3);
  const auto other = [&](int number) {
    const std::string name(1, static_cast<char>('a' + number));
    be_examined(
        desk, card(name), "127.0.0.1",
        [&, number, name](const std::string& job) {
          told[number] = job;
          return healthy(name);
        },
        Deadline::after(std::chrono::seconds(60)));
  };
  std::thread second(other, 1);
  std::thread third(other, 2);
  MachineFacts first = healthy("a");
  first.probe = "127.0.0.1";
  const Examination all = examine(desk, first, 3, Deadline::after(std::chrono::seconds(60)), [](const std::string&) {});
  second.join();
  third.join();
  EXPECT_EQ(told[1], "text of the job");
  ASSERT_EQ(all.hosts.size(), 3U);
  ASSERT_EQ(all.links.size(), 6U);
  for (const LinkFigures& link : all.links)
    EXPECT_EQ(link.failure, "") << link.from << " to " << link.to;
  testing::expect_error(ErrorKind::kUnsupported, "have come", [&] { desk.join(card("d")); });
  control::HostCard old = card("old");
  old.version = "0";
  testing::expect_error(ErrorKind::kMismatch, "Muster 0", [&] { DoctorDesk(2, "").join(old); });
  DoctorDesk lonely(2, "");
  lonely.join(card("a"));
  testing::expect_error(ErrorKind::kTimeout, "1 of 2 hosts", [&] {
    examine(lonely, first, 2, Deadline::after(std::chrono::nanoseconds(0)), [](const std::string&) {});
  });
}

}  // namespace
}  // namespace muster::cli
