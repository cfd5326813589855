// The manifests of a job for Kubernetes, and a file to build its image by: texts, no effects.
//
// An indexed Job has a pod for each host, which is told by the variables of docs/launching.md who it is; a headless
// Service gives the pods names; Secrets carry certificates made for this job. A pod that is evicted leaves the job as a
// host does that is lost, and comes back as another one; the first one's return goes on with the run, if the volume for
// runs outlives the pod.
#pragma once

#include <cstdint>
#include <string>

#include "muster/control/trust_files.h"

namespace muster::launch {

struct KubernetesJob {
  std::string name{};  // of all objects: lower-case letters, digits and -, 50 at most
  std::string image{};
  int hosts = 2;
  std::string job{};    // the text of the job file
  std::string claim{};  // the PersistentVolumeClaim for runs; empty: an emptyDir, gone with the pod
  std::string data{};   // another one, mounted read only at /data; empty: none
  int cores = 1;        // of a pod
  std::uint64_t memory_bytes = 0;
  int grace_seconds = 60;  // from SIGTERM to SIGKILL
  control::CertificateFiles coordinator{};
  control::CertificateFiles agent{};
};

// One YAML stream. Throws Error{kInvalidInput} for a name that Kubernetes would refuse.
std::string kubernetes_manifests(const KubernetesJob& job);

// An image with Muster built from its source tree, on Debian.
std::string containerfile();

// `text` as a name of an object: "Big Job_1" is "big-job-1".
std::string kubernetes_name(const std::string& text);

}  // namespace muster::launch
