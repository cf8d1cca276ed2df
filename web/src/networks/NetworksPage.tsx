import Box from "@mui/material/Box";
import Tab from "@mui/material/Tab";
import Tabs from "@mui/material/Tabs";
import Typography from "@mui/material/Typography";
import { useAddress, withValues } from "../address/useAddress";
import { AddressUse } from "./addresses/AddressUse";
import { NetworkCheck } from "./NetworkCheck";
import { PastTraffic } from "./traffic/PastTraffic";
import { RegistryTable } from "./addresses/RegistryTable";
import { TrafficTable } from "./traffic/TrafficTable";

const PARTS = { traffic: "Traffic", past: "Traffic over time", use: "Addresses in use", registry: "All clusters", check: "Check a plan" } as const;
type Part = keyof typeof PARTS;

/** Who talks to the internet, now and in the past, which addresses are in use, and which belong to whom. */
export function NetworksPage() {
  const [parameters, changeAddress] = useAddress();
  const asked = parameters.get("part") ?? "";
  const part = Object.hasOwn(PARTS, asked) ? (asked as Part) : "traffic";
  const show = (next: Part) => changeAddress(() => new URLSearchParams(next === "traffic" ? {} : { part: next }), true);
  const change = (values: Readonly<Record<string, string>>) => changeAddress((newest) => withValues(newest, values));
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 6, mb: 3 }}>
        <Typography variant="h1">Networks</Typography>
        <Tabs value={part} onChange={(_, next: Part) => show(next)} variant="scrollable" scrollButtons={false} aria-label="Parts of the page">
          {Object.entries(PARTS).map(([value, word]) => (
            <Tab key={value} value={value} label={word} />
          ))}
        </Tabs>
      </Box>
      {part === "traffic" && <TrafficTable parameters={parameters} change={change} />}
      {part === "past" && <PastTraffic parameters={parameters} change={change} />}
      {part === "use" && <AddressUse text={parameters.get("text") ?? ""} change={change} />}
      {part === "registry" && <RegistryTable text={parameters.get("text") ?? ""} change={change} />}
      {part === "check" && <NetworkCheck />}
    </>
  );
}
