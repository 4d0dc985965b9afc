// The scripts and their templates are written together: what a script asks a page for is there, of the kind it wants.
interface ParentNode {
  querySelector(selectors: string): any;
  querySelectorAll(selectors: string): NodeListOf<any>;
}
interface Document {
  getElementById(id: string): any;
}
interface Element {
  closest(selectors: string): any;
}
interface Event {
  readonly target: any;
}
declare const uPlot: any; // of a registry, as the package holds it
