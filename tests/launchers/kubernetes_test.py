#!/usr/bin/env python3
"""What muster launch kubernetes prints, against the schemas that Kubernetes publishes, and what the parts say together.

usage: kubernetes_test.py MUSTER SCHEMAS      SCHEMAS: made by tools/kubernetes_schemas
"""
import copy
import os
import subprocess
import sys
import tempfile
import unittest

MUSTER, SCHEMAS = os.path.abspath(sys.argv[1]), sys.argv[2]
PYTHON = os.path.join(SCHEMAS, "bin", "python")
READY = os.path.join(SCHEMAS, "ready")
if not os.path.exists(READY):
    # Once a build folder; where there is no package index the test says so, and is skipped.
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/kubernetes_schemas")
    fetched = subprocess.run(["timeout", "240", tool, SCHEMAS], check=False, capture_output=True, text=True)
    if fetched.returncode != 0:
        print(f"skipped: no schemas could be fetched into {SCHEMAS} (tools/kubernetes_schemas): {fetched.stderr}")
        sys.exit(77)
if os.path.realpath(sys.prefix) != os.path.realpath(SCHEMAS):
    os.execv(PYTHON, [PYTHON, "-B", os.path.abspath(__file__), *sys.argv[1:]])
del sys.argv[1:]

import kubernetes_validate  # noqa: E402  of that environment
import yaml  # noqa: E402

import launchers  # noqa: E402

OLDEST = "1.28"  # the first with pod failure policies and completion indexes for all


class Kubernetes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="muster-kubernetes-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = cls.temporary.name
        launchers.write_job(cls.folder, more="workers = 2\n[checkpoint]\ngrace_seconds = 33\n")
        cls.text = launchers.finish(
            [MUSTER, "launch", "kubernetes", "job.toml", "--image", "registry.example/muster:1", "--hosts", "4",
             "--claim", "runs", "--data", "pictures", "--set", "job.lanes=8"], cls.folder).stdout
        cls.objects = {one["kind"]: one for one in yaml.safe_load_all(cls.text)}
        cls.pod = cls.objects["Job"]["spec"]["template"]["spec"]
        cls.container = cls.pod["containers"][0]

    def test_every_object_fits_its_schema(self):
        self.assertEqual(set(self.objects), {"Secret", "ConfigMap", "Service", "Job"})
        for version in (OLDEST, kubernetes_validate.latest_version()):
            for one in self.objects.values():
                kubernetes_validate.validate(one, version, strict=True)

    def test_the_schemas_refuse_what_is_wrong(self):
        wrong = copy.deepcopy(self.objects["Job"])
        wrong["spec"]["completionModus"] = wrong["spec"].pop("completionMode")
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, OLDEST, strict=True)

    def test_pods_find_and_know_each_other(self):
        job, service = self.objects["Job"], self.objects["Service"]
        self.assertEqual(job["spec"]["completionMode"], "Indexed")
        self.assertEqual((job["spec"]["completions"], job["spec"]["parallelism"]), (4, 4))
        labels = job["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(service["spec"]["selector"], labels)
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertEqual(self.pod["subdomain"], service["metadata"]["name"])
        env = {one["name"]: one.get("value") for one in self.container["env"]}
        self.assertEqual(env["MUSTER_NODES"], "4")
        # A pod of an indexed job is called by the job's name and its index.
        self.assertEqual(env["MUSTER_COORDINATOR"], f"{job['metadata']['name']}-0.{service['metadata']['name']}:7400")
        self.assertEqual(service["spec"]["ports"][0]["port"], 7400)

    def test_certificates_are_those_of_both_roles(self):
        secret = self.objects["Secret"]["stringData"]
        volume = next(one["secret"] for one in self.pod["volumes"] if one["name"] == "certs")
        self.assertEqual(volume["secretName"], self.objects["Secret"]["metadata"]["name"])
        for item in volume["items"]:
            path = os.path.join(self.folder, "certs", item["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(secret[item["key"]])
        for role in ("coordinator", "agent"):
            shown = launchers.finish([MUSTER, "certs", "show", os.path.join("certs", role)], self.folder).stdout
            self.assertIn(f"for          {role}", shown)
        self.assertNotIn("ca.key", secret)

    def test_the_job_is_the_one_that_was_given(self):
        with open(os.path.join(self.folder, "from-kubernetes.toml"), "w") as file:
            file.write(self.objects["ConfigMap"]["data"]["job.toml"])
        shown = launchers.finish([MUSTER, "check", "from-kubernetes.toml", "--file-only"], self.folder).stdout
        self.assertIn("hosts = 4", shown)

    def test_memory_grace_and_disruption(self):
        requests = self.container["resources"]["requests"]
        self.assertEqual(requests["cpu"], "2")
        self.assertTrue(requests["memory"].endswith("Mi"))
        # That of the preflight, which has made the model, and not the guess for what cannot be measured.
        self.assertRegex(self.text, r"# Memory of a pod: [0-9.]+ [MG]B for 2 workers")
        self.assertLess(int(requests["memory"][:-2]), 4096)
        self.assertEqual(self.pod["terminationGracePeriodSeconds"], 33 + 30)
        rules = self.objects["Job"]["spec"]["podFailurePolicy"]["rules"]
        self.assertEqual(rules[0]["action"], "Ignore")
        self.assertEqual(rules[0]["onPodConditions"][0]["type"], "DisruptionTarget")
        self.assertTrue(self.pod["securityContext"]["runAsNonRoot"])

    def test_paths_of_this_machine_are_warned_of(self):
        with open(os.path.join(self.folder, "table.csv"), "w") as file:
            file.write("a,b\n" + "1,0\n2,1\n" * 50)

        def warnings(path, *more):
            with open(os.path.join(self.folder, "table.toml"), "w") as file:
                file.write('[job]\nlanes = 4\n[data]\nsource = "csv"\ntarget = "b"\ntest_fraction = 0.2\nbatch = 8\n'
                           f'path = "{path}"\n[model]\nname = "mlp"\n')
            return launchers.finish([MUSTER, "launch", "kubernetes", "table.toml", "--image", "i", *more], self.folder)

        here = os.path.join(self.folder, "table.csv")
        done = warnings(here)
        self.assertIn(f'data.path = "{here}" has to be a path that every pod sees', done.stderr)
        done = warnings("/data/table.csv", "--data", "tables")
        self.assertNotIn("has to be a path", done.stderr)
        # What is not here cannot be measured: the guess says so.
        self.assertIn("# Memory of a pod: not measured", done.stdout)

    def test_what_is_missing_is_said(self):
        done = launchers.finish([MUSTER, "launch", "kubernetes", "job.toml"], self.folder, code=2)
        self.assertIn("--image", done.stderr)
        self.assertIn("FROM debian", launchers.finish([MUSTER, "launch", "kubernetes", "--containerfile"],
                                                      self.folder).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
