// Flags of jobs whose record is in an etcd: where it is, and by what both sides know each other. No torch here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "muster/control/etcd_options.h"

namespace muster::cli {

struct StoreFlags {
  std::string url;  // empty: the record is in the run's folder
  std::filesystem::path authority;
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::string user;
  std::filesystem::path password;
  int lease_seconds = 5;
  bool insecure = false;
};

void add_store_flags(CLI::App& command, StoreFlags& flags);

// Nothing without --store. Throws kInvalidInput for what is no address of an etcd, and for one on another machine
// without TLS unless that was typed: what is written there is run here.
std::optional<control::EtcdOptions> etcd_by(const StoreFlags& flags);

}  // namespace muster::cli
